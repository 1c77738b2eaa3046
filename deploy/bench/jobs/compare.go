package main

import "context"

func compare(ctx context.Context, s *site, o options) error { return nil }
