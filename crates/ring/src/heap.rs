//! Freed memory goes back to the system.
//!
//! Polynomials are megabytes each. The GNU C library keeps what a thread freed in that thread's arena, so a server whose sessions
//! come and go in threads of their own would stay at its peak for ever (docs/decisions/0009-freed-memory.md).

/// Makes all threads of this process allocate from one arena. Call it first thing, before there are threads.
///
/// [`give_back`] returns the free end of the first arena only: whatever ends the arena of a session's thread stays resident, and a
/// server at rest would show a memory that depends on which thread freed last. Does nothing where the allocator is not that of
/// the GNU C library.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn share_one_arena() {
    // SAFETY: `mallopt` takes two integers, and `M_ARENA_MAX` only bounds how many arenas are made from now on.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Makes all threads allocate from one arena: not needed on this system.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_one_arena() {}

/// Asks the allocator to give its free pages back. Costs some milliseconds a gigabyte; call it when a session has ended. Does
/// nothing where the allocator is not that of the GNU C library.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: `malloc_trim` takes no pointer and may be called at any time from any thread; it locks each arena in turn
    // and touches free chunks only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Asks the allocator to give its free pages back: not needed on this system.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

/// Size of a huge page.
#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

/// Asks the system to back a large buffer that was not written yet with huge pages. Kernels visit such buffers in pieces of a few
/// kilobytes, each of which would need an address translation of its own. A hint; small buffers are left alone.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn prefer_huge_pages(words: &mut [u64]) {
    let start = words.as_mut_ptr() as usize;
    let end = start + std::mem::size_of_val(words);
    // Whole huge pages inside the buffer only: neighbours are not ours.
    let (first, last) = (
        start.next_multiple_of(HUGE_PAGE),
        end / HUGE_PAGE * HUGE_PAGE,
    );
    if first < last {
        // SAFETY: the range is inside memory that we hold exclusively; the advice changes how it is mapped, not what it holds.
        unsafe {
            libc::madvise(
                first as *mut libc::c_void,
                last - first,
                libc::MADV_HUGEPAGE,
            );
        }
    }
}

/// Asks for huge pages: not on this system.
#[cfg(not(target_os = "linux"))]
pub fn prefer_huge_pages(_: &mut [u64]) {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
#[allow(clippy::unwrap_used)]
mod tests {
    /// Resident pages of this process, in bytes.
    fn resident() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        4096 * pages
    }

    #[test]
    fn what_a_thread_freed_is_given_back() {
        // A small block after each large one keeps the arena's top where it is: nothing would be returned by itself.
        let kept = std::thread::spawn(|| {
            let all: Vec<(Vec<u8>, Vec<u8>)> =
                (0..1000).map(|_| (vec![1; 100_000], vec![1; 64])).collect();
            all.into_iter().map(|(_, small)| small).collect::<Vec<_>>()
        })
        .join()
        .unwrap();
        let before = resident();
        super::give_back();
        let after = resident();
        assert_eq!(kept.len(), 1000);
        assert!(after + (50 << 20) < before, "{before} to {after}");
    }
}
