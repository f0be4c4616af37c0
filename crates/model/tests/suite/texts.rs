//! Texts and tokenizer files: what is accepted, cut, padded, and refused.

use crate::common::{documents, load, shipped};
use cipherloom_model::tokenizer::read_text_file;
use cipherloom_model::{Mamba2Config, ModelError, Side, Tokenizer, Truncation};

#[test]
fn short_texts_are_padded_and_long_ones_cut_at_the_models_side() {
    let (model, tokenizer) = load(&shipped());
    let (_, long) = &documents()[0];
    let all = tokenizer.tokens(long, 128).unwrap();
    assert_eq!(all.len(), 942);
    let e = tokenizer.encode(long, 128, Truncation::Allow).unwrap();
    assert_eq!((e.real, e.total, e.cut), (128, 942, Some(Side::Left)));
    assert_eq!(e.ids, all[942 - 128..]);
    let e = tokenizer.encode(long, 942, Truncation::Refuse).unwrap();
    assert_eq!((e.real, e.total, e.cut), (942, 942, None));
    let e = tokenizer.encode(long, 1000, Truncation::Refuse).unwrap();
    assert_eq!((e.ids.len(), e.real), (1000, 942));
    assert!(e.ids[942..].iter().all(|i| *i == model.config.pad_token_id));
    assert_eq!(e.real_ids(), all);
    let mut config = model.config.clone();
    config.truncation_side = Side::Right;
    let right = Tokenizer::load(&shipped(), &config).unwrap();
    let e = right.encode(long, 128, Truncation::Allow).unwrap();
    assert_eq!(e.cut, Some(Side::Right));
    assert_eq!(e.ids, all[..128]);
}

#[test]
fn refusals_say_how_many_tokens_there_are_and_fit() {
    let (_, tokenizer) = load(&shipped());
    let (_, long) = &documents()[0];
    let e = tokenizer.encode(long, 128, Truncation::Refuse).unwrap_err();
    assert!(matches!(
        e,
        ModelError::TooLong {
            tokens: 942,
            fit: 128,
            side: Side::Left
        }
    ));
    let text = e.to_string();
    assert!(text.contains("942") && text.contains("128") && text.contains("beginning"));
    for empty in ["", "  \n\t ", "\u{a0}"] {
        let e = tokenizer.encode(empty, 128, Truncation::Allow).unwrap_err();
        assert!(
            matches!(e, ModelError::EmptyText { fit: 128 }),
            "{empty:?}: {e}"
        );
    }
    for length in [0, (1 << 20) + 1] {
        assert!(matches!(
            tokenizer.encode("x", length, Truncation::Allow),
            Err(ModelError::Length { .. })
        ));
    }
    let huge = "a ".repeat(9 << 20);
    assert!(matches!(
        tokenizer.encode(&huge, 128, Truncation::Allow),
        Err(ModelError::TextTooLarge { .. })
    ));
}

#[test]
fn files_that_are_not_utf8_name_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("t.txt");
    std::fs::write(&p, b"caf\xe9 noir").unwrap();
    assert!(matches!(
        read_text_file(&p),
        Err(ModelError::NotUtf8 { offset: 3, .. })
    ));
    std::fs::write(&p, "café").unwrap();
    assert_eq!(read_text_file(&p).unwrap(), "café");
    assert!(matches!(
        read_text_file(&dir.path().join("none")),
        Err(ModelError::Io { .. })
    ));
}

#[test]
fn unusable_tokenizers_are_refused() {
    let config = Mamba2Config::load(&shipped()).unwrap();
    let good = std::fs::read(shipped().join("tokenizer.json")).unwrap();
    for bytes in [&b""[..], b"{}", b"\xff\xfe", &good[..good.len() / 2]] {
        assert!(Tokenizer::from_bytes(bytes, &config).is_err());
    }
    let mut small = config.clone();
    small.vocab_size = 4000;
    let e = Tokenizer::from_bytes(&good, &small).unwrap_err();
    assert!(e.contains("4000") && e.contains("4095"), "{e}");
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Tokenizer::load(dir.path(), &config),
        Err(ModelError::Io { .. })
    ));
    std::fs::write(dir.path().join("tokenizer.json"), "{").unwrap();
    assert!(matches!(
        Tokenizer::load(dir.path(), &config),
        Err(ModelError::Tokenizer { .. })
    ));
}

#[test]
fn stored_truncation_and_padding_do_not_apply() {
    let config = Mamba2Config::load(&shipped()).unwrap();
    let text = std::fs::read_to_string(shipped().join("tokenizer.json")).unwrap();
    let mut v: serde_json::Value = serde_json::from_str(&text).unwrap();
    v["truncation"] = serde_json::json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    let t = Tokenizer::from_bytes(v.to_string().as_bytes(), &config).unwrap();
    assert!(t.tokens(&documents()[0].1, 1).unwrap().len() > 900);
}
