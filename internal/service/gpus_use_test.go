package service

import (
	"testing"
	"time"

	"slipway/internal/gpu/metering"
)

func TestMeanBusy(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(after time.Duration, percent float64) metering.Point {
		return metering.Point{At: began.Add(after), SM: &percent}
	}
	points := []metering.Point{
		at(0, 100), at(5*time.Minute, 20), at(10*time.Minute, 40), {At: began.Add(15 * time.Minute)},
	}
	for since, want := range map[time.Duration]float64{6 * time.Minute: 0.3, 11 * time.Minute: 0.4, time.Hour: 0} {
		if got := meanBusy(points, began.Add(since)); got < want-0.01 || got > want+0.01 {
			t.Errorf("from %s on: %g, want %g", since, got, want)
		}
	}
	if got := meanBusy(nil, began); got != 0 {
		t.Errorf("of nothing: %g", got)
	}
}
