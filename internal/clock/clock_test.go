package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(begun) != time.Hour {
			t.Errorf("an hour has taken %s", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if Sleep(ctx, time.Hour) {
			t.Error("it goes on beyond its context")
		}
		if Sleep(ctx, -1) {
			t.Error("there is nothing to wait for, but the context has ended")
		}
	})
}
