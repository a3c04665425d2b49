// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Views of an engine's tensors.

use crate::{index, invalid, sys, Result};
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::Range;
use std::os::raw::c_void;

/// Rows of numbers in memory: logits, or a tensor of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: *const c_void,
    len: usize,
    kind: i32,
    columns: usize,
    stride: usize,
    borrowed: PhantomData<&'a [u16]>,
}

/// Rows that an engine stores for a layer and lends for a call that overwrites them.
#[derive(Debug)]
pub struct Stored<'a> {
    data: *mut c_void,
    len: usize,
    kind: i32,
    positions: Range<usize>,
    columns: usize,
    borrowed: PhantomData<&'a mut [u16]>,
}

impl<'a> Rows<'a> {
    fn of<T>(data: &'a [T], kind: i32, columns: usize) -> Rows<'a> {
        Rows {
            data: data.as_ptr().cast(),
            len: data.len(),
            kind,
            columns,
            stride: columns,
            borrowed: PhantomData,
        }
    }
    /// Rows of `columns` numbers behind each other.
    pub fn f32(data: &'a [f32], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::F32, columns)
    }
    /// The same of bfloat16, as bits.
    pub fn bf16(data: &'a [u16], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::BF16, columns)
    }
    /// The same of IEEE half precision, as bits.
    pub fn f16(data: &'a [u16], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::F16, columns)
    }
    /// The same with rows that begin every `stride` numbers.
    pub fn with_stride(self, stride: usize) -> Rows<'a> {
        Rows { stride, ..self }
    }

    pub(crate) fn view(&self) -> Result<sys::unmask_logits> {
        let Rows { len, columns, stride, .. } = *self;
        if columns == 0 || stride < columns {
            return Err(invalid(format!(
                "stride of the rows must be at least their columns, {columns}, which are at least 1, got {stride}"
            )));
        }
        // The last row need not have the padding of the others.
        let rows = (len + stride - columns) / stride;
        if rows > 0 && (len < (rows - 1) * stride + columns || len > rows * stride) {
            return Err(invalid(format!(
                "numbers of the rows must be whole rows of {columns}, {stride} apart, got {len}"
            )));
        }
        if rows == 0 && len > 0 {
            return Err(invalid(format!(
                "numbers of the rows must be rows of {columns}, got {len}"
            )));
        }
        Ok(sys::unmask_logits {
            struct_size: size_of::<sys::unmask_logits>() as u32,
            kind: self.kind,
            memory_space: sys::HOST,
            rows: index("number of rows", rows)?,
            columns: index("number of columns", columns)?,
            stride: stride as i64,
            data: self.data,
        })
    }
}

impl<'a> Stored<'a> {
    fn of<T>(data: &'a mut [T], kind: i32, columns: usize) -> Stored<'a> {
        let positions = 0..data.len().checked_div(columns).unwrap_or(0);
        Stored {
            data: data.as_mut_ptr().cast(),
            len: data.len(),
            kind,
            positions,
            columns,
            borrowed: PhantomData,
        }
    }
    /// Rows of `columns` numbers behind each other, the first that of position 0.
    pub fn f32(data: &'a mut [f32], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::F32, columns)
    }
    /// The same of bfloat16, as bits.
    pub fn bf16(data: &'a mut [u16], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::BF16, columns)
    }
    /// The same of IEEE half precision, as bits.
    pub fn f16(data: &'a mut [u16], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::F16, columns)
    }

    pub(crate) fn view(&self) -> Result<sys::unmask_stored> {
        if self.columns == 0 || self.len != self.positions.len() * self.columns {
            return Err(invalid(format!(
                "stored rows must be whole rows of {} columns, got {} numbers",
                self.columns, self.len
            )));
        }
        Ok(sys::unmask_stored {
            struct_size: size_of::<sys::unmask_stored>() as u32,
            kind: self.kind,
            memory_space: sys::HOST,
            first: 0,
            last: index("number of stored rows", self.positions.len())?,
            columns: index("columns of the stored rows", self.columns)?,
            stride: 0,
            data: self.data,
        })
    }
}
