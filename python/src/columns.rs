//! Memory of Arrow columns, borrowed from Python.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::ops::Range;

/// A column that is read.
pub struct Column<T: pyo3::buffer::Element>(PyBuffer<T>);

/// A column that is written.
pub struct Output<T: pyo3::buffer::Element>(PyBuffer<T>);

/// Address of a written column, for threads that write disjoint parts of it.
pub struct Place<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: `Output::place` gives the address of memory that stays allocated and that no other code
// looks at; `Place::part` asks its callers for disjoint ranges.
unsafe impl<T: Send> Sync for Place<T> {}

fn checked<T: pyo3::buffer::Element>(buffer: PyBuffer<T>, what: &str) -> PyResult<PyBuffer<T>> {
    if buffer.is_c_contiguous() && buffer.dimensions() == 1 {
        return Ok(buffer);
    }
    Err(pyo3::exceptions::PyValueError::new_err(format!("{what}: is not one piece of memory")))
}

impl<T: pyo3::buffer::Element> Column<T> {
    pub fn of(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        checked(PyBuffer::get(value)?, what).map(Self)
    }

    /// Its values, as long as the column is held.
    pub fn values(&self) -> &[T] {
        if self.0.item_count() == 0 {
            return &[];
        }
        // SAFETY: `of` found one piece of memory with elements of this type, aligned (`PyBuffer`
        // checks both). It belongs to an Arrow array, which is immutable, and the buffer holds it.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.item_count()) }
    }
}

impl<T: pyo3::buffer::Element> Output<T> {
    pub fn of(value: &Bound<'_, PyAny>, len: usize, what: &str) -> PyResult<Self> {
        let buffer = checked(PyBuffer::get(value)?, what)?;
        if buffer.readonly() || buffer.item_count() != len {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "{what}: needs {len} values that can be written"
            )));
        }
        Ok(Self(buffer))
    }

    /// # Safety
    /// Until the place is dropped, no other code reads or writes the memory, and the column is
    /// held.
    pub unsafe fn place(&self) -> Place<T> {
        Place { start: self.0.buf_ptr().cast(), len: self.0.item_count() }
    }
}

impl<T> Place<T> {
    /// # Safety
    /// Ranges of parts that live at the same time are disjoint.
    #[allow(clippy::mut_from_ref, reason = "the parts are disjoint, by its contract")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "within the column");
        if range.is_empty() {
            return &mut [];
        }
        // SAFETY: within the memory of the column, and disjoint from other parts by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
