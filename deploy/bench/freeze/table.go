package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// table collects figures in the order in which their names first come.
type table struct {
	names  []string
	values map[string][]float64
	target map[string]string
}

// add adds one value of a figure.
func (t *table) add(name string, value float64) {
	if t.values == nil {
		t.values, t.target = map[string][]float64{}, map[string]string{}
	}
	if !slices.Contains(t.names, name) {
		t.names = append(t.names, name)
	}
	t.values[name] = append(t.values[name], value)
}

// want says what a figure's target is.
func (t *table) want(name, target string) { t.target[name] = target }

func (t *table) median(name string) float64 {
	sorted := slices.Sorted(slices.Values(t.values[name]))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// write prints the figures as Markdown.
func (t *table) write(w io.Writer) error {
	_, err := fmt.Fprint(w, "| figure | min | median | max | runs | target |\n|---|---|---|---|---|---|\n")
	for _, name := range t.names {
		v := t.values[name]
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %s | **%s** | %s | %d | %s |\n", name, short(slices.Min(v)), short(t.median(name)), short(slices.Max(v)), len(v), t.target[name])
		}
	}
	return err
}

// short gives three digits that count.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
