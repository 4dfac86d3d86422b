//! x
#![allow(dead_code)]
mod count;
