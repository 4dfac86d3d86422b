//! See [`rowstream_fuzz::postgres_wire()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::postgres_wire);
