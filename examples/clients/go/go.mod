module rows

go 1.19
