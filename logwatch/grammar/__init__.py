"""Level 1: grammars are data; one AST, two compilers."""
