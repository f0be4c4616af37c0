//! Exact counts by stage.
//!
//! Flight rule: a party opens a new flight when it sends its first message, or sends after having received
//! something since its last send. The flight belongs to the stage of its first message and its number travels in
//! every frame header, so both parties count the same flights without inferring anything. A planner replays
//! it with one flag a party: `fresh` starts true; a send with `fresh` set opens a flight and clears it; a receive sets it.
//! Two parties that send at the same moment and then both receive count as two flights, one round.

use crate::frame::FrameKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// One direction of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DirectionCounts {
    /// Payload and header bytes.
    pub bytes: u64,
    /// Messages (not frames).
    pub messages: u64,
    /// Flights opened in this direction.
    pub flights: u64,
}

impl DirectionCounts {
    fn add(&mut self, o: &Self) {
        self.bytes += o.bytes;
        self.messages += o.messages;
        self.flights += o.flights;
    }
}

/// Both directions of one stage, as one party sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StageTraffic {
    /// Stage number.
    pub stage: u16,
    /// Stage name.
    pub name: String,
    /// What this party sent.
    pub sent: DirectionCounts,
    /// What this party received.
    pub received: DirectionCounts,
}

impl StageTraffic {
    /// Flights of both directions.
    #[must_use]
    pub fn flights(&self) -> u64 {
        self.sent.flights + self.received.flights
    }
    /// The same stage seen by the other party.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        Self {
            stage: self.stage,
            name: self.name.clone(),
            sent: self.received,
            received: self.sent,
        }
    }
}

/// Counts of a session so far: the stages in the order of their numbers. Error frames are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrafficSnapshot {
    /// One entry a stage that was entered.
    pub stages: Vec<StageTraffic>,
}

impl TrafficSnapshot {
    /// Sum over all stages.
    #[must_use]
    pub fn total(&self) -> StageTraffic {
        let mut t = StageTraffic {
            name: "total".to_owned(),
            ..StageTraffic::default()
        };
        for s in &self.stages {
            t.sent.add(&s.sent);
            t.received.add(&s.received);
        }
        t
    }
    /// The counts of one stage, zero if it was never entered.
    #[must_use]
    pub fn stage(&self, stage: u16) -> StageTraffic {
        self.stages
            .iter()
            .find(|s| s.stage == stage)
            .cloned()
            .unwrap_or_else(|| StageTraffic {
                stage,
                ..StageTraffic::default()
            })
    }
}

/// One message in the order that a party saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRecord {
    /// Whether this party sent it.
    pub sent: bool,
    /// Kind.
    pub kind: FrameKind,
    /// Stage.
    pub stage: u16,
    /// Payload bytes.
    pub len: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    stages: BTreeMap<u16, StageTraffic>,
    current: u16,
    schedule: Option<Vec<MessageRecord>>,
}

impl Counters {
    pub fn enter(&mut self, stage: u16, name: &str) {
        self.current = stage;
        let s = self.stages.entry(stage).or_default();
        s.stage = stage;
        name.clone_into(&mut s.name);
    }

    pub fn name(&self) -> &str {
        self.stages.get(&self.current).map_or("", |s| &s.name)
    }

    pub fn current(&self) -> u16 {
        self.current
    }

    pub fn record_schedule(&mut self) {
        self.schedule = Some(Vec::new());
    }

    pub fn schedule(&self) -> &[MessageRecord] {
        self.schedule.as_deref().unwrap_or(&[])
    }

    pub fn count(&mut self, sent: bool, kind: FrameKind, len: u64, bytes: u64, flights: u64) {
        let s = self.stages.entry(self.current).or_default();
        let d = if sent { &mut s.sent } else { &mut s.received };
        d.bytes += bytes;
        d.messages += 1;
        d.flights += flights;
        if let Some(list) = &mut self.schedule {
            list.push(MessageRecord {
                sent,
                kind,
                stage: self.current,
                len,
            });
        }
    }

    pub fn snapshot(&self) -> TrafficSnapshot {
        TrafficSnapshot {
            stages: self.stages.values().cloned().collect(),
        }
    }
}
