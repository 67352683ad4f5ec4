//! The allocator of the programs: mimalloc, asked for an alignment only where it matters.
//!
//! The crate `mimalloc` names the alignment of every allocation. mimalloc 3 then searches for room
//! for the alignment as well, unless the size is a power of two, and frees what it has found in a
//! slower way. Every block of mimalloc is aligned to a machine word without that, and almost all
//! allocations need no more (decision 0068).

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys as mimalloc;

/// The alignment of every block: mimalloc's own `mi_realloc_aligned` relies on it too.
const NATURAL: usize = size_of::<usize>();

/// See the documentation of the crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

// SAFETY: each function hands its arguments to the function of mimalloc that has the same contract:
// it returns null, or a block of at least this size that is aligned as the layout asks, by itself
// where that is no more than `NATURAL`. Any block may be freed with `mi_free`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: `layout` is valid.
        unsafe {
            match align <= NATURAL {
                true => mimalloc::mi_malloc(size).cast(),
                false => mimalloc::mi_malloc_aligned(size, align).cast(),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: `layout` is valid.
        unsafe {
            match align <= NATURAL {
                true => mimalloc::mi_zalloc(size).cast(),
                false => mimalloc::mi_zalloc_aligned(size, align).cast(),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of this allocator.
        unsafe { mimalloc::mi_free(block.cast::<c_void>()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller passes a block of this allocator and a size that its layout can have.
        unsafe { mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()).cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of each small size and alignment, which stay while the others are allocated.
    #[test]
    fn blocks_are_aligned_and_keep_what_is_written_there() {
        let layouts = (0..13).flat_map(|shift| {
            let sizes = (1..=80).chain([1000, 1024, 5000, 65_537, 3 << 20]);
            sizes.map(move |size| (size, 1 << shift))
        });
        let layouts = layouts.map(|(size, align)| Layout::from_size_align(size, align).unwrap());
        let mut held = Vec::new();
        for (at, layout) in layouts.enumerate() {
            let mark = at as u8;
            // SAFETY: no size is 0, what is written stands within the size, and each block is
            // freed once, with its layout.
            let block = unsafe {
                let block = match at % 2 {
                    0 => Allocator.alloc(layout),
                    _ => Allocator.alloc_zeroed(layout),
                };
                assert!(at % 2 == 0 || *block.add(layout.size() - 1) == 0);
                block.write_bytes(mark, layout.size());
                block
            };
            assert!((block as usize).is_multiple_of(layout.align()), "{layout:?}");
            held.push((block, layout, mark));
        }
        for (block, layout, mark) in held {
            // SAFETY: as above.
            unsafe {
                let larger = Allocator.realloc(block, layout, 2 * layout.size());
                assert!((larger as usize).is_multiple_of(layout.align()), "{layout:?}");
                assert_eq!((*larger, *larger.add(layout.size() - 1)), (mark, mark), "{layout:?}");
                let layout = Layout::from_size_align(2 * layout.size(), layout.align()).unwrap();
                Allocator.dealloc(larger, layout);
            }
        }
    }
}
