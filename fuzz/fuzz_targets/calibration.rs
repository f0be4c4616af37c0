#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cipherloom_fuzz::model::calibration(data);
});
