//! See [`rowstream_fuzz::arrow()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::arrow);
