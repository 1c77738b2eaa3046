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
	target map[string]target
}

// target is what a figure should be.
type target struct {
	most, least float64 // one of them; 0: no bound
	worst       bool    // it holds for each run, not for the median
}

// tell says what the target is, and whether the runs meet it.
func (t target) tell(values []float64) string {
	bound, word, value := t.most, "at most", median(values)
	switch {
	case t.least > 0:
		bound, word = t.least, "at least"
	case t.worst:
		value = slices.Max(values)
	}
	verdict := "met"
	if t.least > 0 && value < bound || t.most > 0 && value > bound {
		verdict = "**missed**"
	}
	if t.worst {
		word = "always " + word
	}
	return fmt.Sprintf("%s %g: %s", word, bound, verdict)
}

// add adds one value of a figure.
func (t *table) add(name string, value float64) {
	if t.values == nil {
		t.values, t.target = map[string][]float64{}, map[string]target{}
	}
	if !slices.Contains(t.names, name) {
		t.names = append(t.names, name)
	}
	t.values[name] = append(t.values[name], value)
}

// spent adds what a piece of work took.
func (t *table) spent(name string, u used) {
	t.add(name+": s", u.wall)
	t.add(name+": CPU s", u.cpu)
}

// want says what a figure's target is.
func (t *table) want(name string, what target) { t.target[name] = what }

func (t *table) median(name string) float64 { return median(t.values[name]) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// write prints the figures as Markdown.
func (t *table) write(w io.Writer) error {
	_, err := fmt.Fprint(w, "| figure | min | median | max | runs | target |\n|---|---|---|---|---|---|\n")
	for _, name := range t.names {
		v, told := t.values[name], ""
		if what, ok := t.target[name]; ok {
			told = what.tell(v)
		}
		if err == nil {
			_, err = fmt.Fprintf(
				w, "| %s | %s | **%s** | %s | %d | %s |\n", name, short(slices.Min(v)), short(median(v)),
				short(slices.Max(v)), len(v), told,
			)
		}
	}
	return err
}

// short returns three digits that count.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a < 0.0095:
		return fmt.Sprintf("%.4f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
