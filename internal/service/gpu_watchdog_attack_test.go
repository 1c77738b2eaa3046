package service

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestADeafAgentKeepsNoWarningBack: whoever does not take a warning delays those of others by nothing.
func TestADeafAgentKeepsNoWarningBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		warnings, told := make(chan warning, mostWarnings), make(chan string, 2*mostWarnings)
		done := make(chan struct{})
		go func() {
			defer close(done)
			deliver(ctx, warnings, func(w warning) {
				if w.text == "deaf" {
					<-ctx.Done()
					return
				}
				told <- w.workload
			})
		}()
		for i := range mostWarnings - 1 {
			warnings <- warning{fmt.Sprint("s-", i), "deaf"}
		}
		synctest.Wait()
		warnings <- warning{"s-neighbour", "too much"}
		synctest.Wait()
		if len(told) != 1 || <-told != "s-neighbour" {
			t.Error("the neighbour is not warned")
		}
		end()
		<-done
	})
}
