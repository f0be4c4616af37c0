#![no_main]
libfuzzer_sys::fuzz_target!(
    init: cipherloom_fuzz::model::quiet_panics(),
    |data: &[u8]| {
        cipherloom_fuzz::engine::bundle(data);
    }
);
