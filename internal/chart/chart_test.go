package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func plain(v float64) string { return fmt.Sprint(v) }

func axes(d time.Duration) Axes {
	return Axes{Title: "CPU", From: noon.Add(-d), To: noon, Format: plain}
}

// sound fails unless a chart is well-formed, alone and within a page.
func sound(t *testing.T, svg string) string {
	t.Helper()
	for _, text := range []string{svg, Alone(svg)} {
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("there are numbers that are none: %s", svg)
	}
	return svg
}

func TestLines(t *testing.T) {
	a := axes(2 * time.Hour)
	a.Limit = 4
	dots := []Dot{
		{a.From, 1}, {a.From.Add(time.Minute), 3}, {a.From.Add(2 * time.Minute), math.NaN()},
		{a.From.Add(time.Hour), 2}, {a.From.Add(61 * time.Minute), 2},
	}
	svg := sound(t, Lines(a, Line{Name: "CPU", Dots: dots}))
	for _, want := range []string{
		`aria-label="CPU: from 1 to 3, last 2, of at most 4"`, `class="limit"`, ">2 h ago<", ">1 h ago<", ">now<", ">4<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	if n := strings.Count(svg, `class="line c0"`); n != 2 {
		t.Errorf("%d pieces around what was not measured", n)
	}
	a.Since = true
	if svg := Lines(a, Line{Dots: dots}); !strings.Contains(svg, ">0<") || strings.Contains(svg, "ago") {
		t.Errorf("of what has ended: %s", svg)
	}
}

// TestWholeUnits: an axis that counts has no line between two of what it counts.
func TestWholeUnits(t *testing.T) {
	a := axes(time.Hour)
	a.Whole, a.Unit = true, 60
	a.Format = func(v float64) string { return fmt.Sprintf("%d min", int(v/60)) }
	svg := sound(t, Lines(a, Line{Dots: []Dot{{noon, 12}}}))
	for _, want := range []string{">0 min<", ">1 min<"} {
		if n := strings.Count(svg, want); n != 1 {
			t.Errorf("%d times %s in %s", n, want, svg)
		}
	}
}

func TestChartsOfNothing(t *testing.T) {
	for name, svg := range map[string]string{
		"no numbers":  Lines(axes(time.Hour), Line{}),
		"no line":     Lines(axes(time.Hour)),
		"no time":     Lines(axes(0), Line{Dots: []Dot{{noon, 1}}}),
		"zeros":       Lines(axes(time.Hour), Line{Dots: []Dot{{noon, 0}, {noon, 0}}}),
		"ages":        Stack(Axes{Title: "CPU", To: noon, Format: plain}, []time.Time{{}}, Layer{Name: "a", Values: []float64{1e300}}),
		"no layers":   Stack(axes(time.Hour), nil),
		"empty layer": Stack(axes(time.Hour), nil, Layer{Name: "a"}),
	} {
		if sound(t, svg); !strings.Contains(svg, "CPU") {
			t.Errorf("%s: it does not say what it is: %s", name, svg)
		}
	}
}

// TestChartsAreSmall: a page with some of them stays within its bound, whatever was measured.
func TestChartsAreSmall(t *testing.T) {
	a := axes(7 * 24 * time.Hour)
	var dots []Dot
	for at := a.From; at.Before(a.To); at = at.Add(30 * time.Second) {
		dots = append(dots, Dot{at, float64(len(dots) % 97)})
	}
	svg := sound(t, Lines(a, Line{Dots: dots}))
	if len(svg) > 8000 {
		t.Errorf("%d bytes", len(svg))
	}
	for peak, want := range map[bool]bool{true: true, false: false} {
		if got := strings.Contains(Lines(a, Line{Dots: dots, Peak: peak}), "to 96,"); got != want {
			t.Errorf("the highest of many is drawn: %t", got)
		}
	}
}

func TestStack(t *testing.T) {
	a := axes(2 * time.Hour)
	times := []time.Time{a.From, a.From.Add(time.Hour)}
	svg := sound(t, Stack(
		a, times, Layer{Name: `<b>"a" & b</b>`, Values: []float64{1, 2}},
		Layer{Name: "failed", Class: "bad", Values: []float64{0, 1}},
	))
	for _, want := range []string{`class="layer c0"`, `class="layer bad"`, "&lt;b&gt;", "failed: last 1", ">3<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	if strings.Contains(svg, "<b>") {
		t.Errorf("a name is taken for markup: %s", svg)
	}
}

func TestSteps(t *testing.T) {
	for highest, want := range map[float64]float64{0: 1, 1: .25, 4: 1, 7: 2, 100: 25, 96: 25, .03: .01} {
		if got := niceStep(highest); math.Abs(got-want) > 1e-9 {
			t.Errorf("up to %g: %g, want %g", highest, got, want)
		}
	}
	for span, want := range map[time.Duration]time.Duration{
		time.Minute: 30 * time.Second, time.Hour: 20 * time.Minute, 24 * time.Hour: 12 * time.Hour,
		7 * 24 * time.Hour: 48 * time.Hour, 100 * 24 * time.Hour: 100 * 8 * time.Hour,
	} {
		if got := timeStep(span); got != want {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
}
