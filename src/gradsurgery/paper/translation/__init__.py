"""English to German on two parallel corpora: one large and generic, one small and of higher quality."""
