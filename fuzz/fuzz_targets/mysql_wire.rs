//! See [`rowstream_fuzz::mysql_wire()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::mysql_wire);
