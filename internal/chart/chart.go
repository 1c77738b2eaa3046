// Package chart draws numbers over time as SVG: lines, and what adds up.
//
// Promises: a chart needs no script and no colours to be read, says in words what it shows, and is small, however many
// numbers there are. It has classes in place of colours: Style gives them some, and a page may have its own. It knows
// nothing of what is drawn, and does no I/O.
package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// The frame, in units of the picture.
const (
	width, height            = 380, 150
	left, right, top, bottom = 56, 8, 8, 20
	innerWidth               = width - left - right
	innerHeight              = height - top - bottom
	keyWidth, keyHeight      = 108, 16 // of the name of a line or layer below
	keyShown                 = 15      // how much of it is shown
	most                     = 180     // points of one line
)

// Axes are what all charts have.
type Axes struct {
	Title    string
	From, To time.Time
	// Since says that times are told since From, as of something that has ended; else they are told until now, To.
	Since  bool
	Format func(float64) string // of a number on the axis and in words
	Unit   float64              // of the axis: 1; 1 << 30 where it counts GiB. 0: 1
	Whole  bool                 // the axis counts whole units
	Limit  float64              // a line across; 0: there is none
}

// Dot is one number of a line.
type Dot struct {
	At time.Time
	Y  float64 // NaN: not measured
}

// Line is a number over time.
type Line struct {
	Name string
	Dots []Dot
	Peak bool // of several numbers in one place the highest is drawn, not their mean
}

// Lines draws lines.
func Lines(a Axes, lines ...Line) string {
	highest := a.Limit
	for i, l := range lines {
		lines[i].Dots = l.thinned(a)
		for _, d := range lines[i].Dots {
			if d.Y > highest {
				highest = d.Y
			}
		}
	}
	var keys []key
	for i, l := range lines {
		keys = append(keys, key{l.Name, fmt.Sprintf("c%d", i)})
	}
	if len(lines) == 1 { // the title says what it is
		keys = nil
	}
	p := newPicture(a, highest, linesWords(a, lines), keys)
	for i, l := range lines {
		p.line(fmt.Sprintf("line c%d", i), l.Dots, len(lines) == 1)
	}
	return p.end()
}

// linesWords says what lines show.
func linesWords(a Axes, lines []Line) string {
	var words []string
	for _, l := range lines {
		low, high, last := math.Inf(1), math.Inf(-1), math.NaN()
		for _, d := range l.Dots {
			if !math.IsNaN(d.Y) {
				low, high, last = min(low, d.Y), max(high, d.Y), d.Y
			}
		}
		text := "nothing was measured"
		if !math.IsNaN(last) {
			text = fmt.Sprintf("from %s to %s, last %s", a.Format(low), a.Format(high), a.Format(last))
		}
		if len(lines) > 1 {
			text = l.Name + ": " + text
		}
		words = append(words, text)
	}
	out := a.Title + ": " + strings.Join(words, "; ")
	if a.Limit > 0 {
		out += ", of at most " + a.Format(a.Limit)
	}
	return out
}

// thinned returns the dots between the ends of the axis, no more than can be told apart.
func (l Line) thinned(a Axes) (out []Dot) {
	var bin []Dot
	flush := func() {
		if len(bin) > 0 {
			out = append(out, merged(bin, l.Peak))
			bin = bin[:0]
		}
	}
	last := -1
	for _, d := range l.Dots {
		if d.At.Before(a.From) || d.At.After(a.To) {
			continue
		}
		at := int(float64(most) * a.share(d.At))
		if at != last {
			flush()
		}
		bin, last = append(bin, d), at
	}
	flush()
	return out
}

func merged(bin []Dot, peak bool) Dot {
	sum, n, high := 0.0, 0, math.Inf(-1)
	for _, d := range bin {
		if !math.IsNaN(d.Y) {
			sum, n, high = sum+d.Y, n+1, max(high, d.Y)
		}
	}
	switch {
	case n == 0:
		return Dot{bin[0].At, math.NaN()}
	case peak:
		return Dot{bin[0].At, high}
	default:
		return Dot{bin[0].At, sum / float64(n)}
	}
}

// share returns where between the ends of the axis a time is, 0 to 1.
func (a Axes) share(t time.Time) float64 {
	span := a.To.Sub(a.From)
	if span <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(a.From))/float64(span), 0), 1)
}

// Layer is one part of what adds up, by its name: what it had from each time on.
type Layer struct {
	Name   string
	Class  string // in place of one by its number, such as "bad"
	Values []float64
}

// Stack draws parts on top of each other. The values of layers are those from times on; the last ones hold until To.
func Stack(a Axes, times []time.Time, layers ...Layer) string {
	sums, highest := make([]float64, len(times)), a.Limit
	for _, l := range layers {
		for i, v := range l.Values {
			sums[i] += v
			highest = max(highest, sums[i])
		}
	}
	var keys []key
	for i, l := range layers {
		keys = append(keys, key{l.Name, cmp.Or(l.Class, fmt.Sprintf("c%d", i))})
	}
	p := newPicture(a, highest, stackWords(a, layers), keys)
	floor := make([]float64, len(times))
	for i, l := range layers {
		p.layer(keys[i].class, times, floor, l.Values)
		for j, v := range l.Values {
			floor[j] += v
		}
	}
	return p.end()
}

func stackWords(a Axes, layers []Layer) string {
	var words []string
	for _, l := range layers {
		last := 0.0
		if n := len(l.Values); n > 0 {
			last = l.Values[n-1]
		}
		words = append(words, fmt.Sprintf("%s: last %s", l.Name, a.Format(last)))
	}
	if len(words) == 0 {
		words = []string{"nothing was measured"}
	}
	return a.Title + ": " + strings.Join(words, "; ")
}

// picture is an SVG in the making.
type picture struct {
	strings.Builder
	axes Axes
	top  float64 // of the axis
}

// key is the name of a line or layer.
type key struct{ name, class string }

func newPicture(a Axes, highest float64, words string, keys []key) *picture {
	if a.Unit == 0 {
		a.Unit = 1
	}
	step := niceStep(highest / a.Unit)
	if a.Whole {
		step = math.Ceil(step)
	}
	step *= a.Unit
	p := &picture{axes: a, top: max(step, math.Ceil(highest/step-1e-9)*step)}
	inRow := width / keyWidth
	rows := (len(keys) + inRow - 1) / inRow
	fmt.Fprintf(
		p, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height+rows*keyHeight,
		html.EscapeString(words),
	)
	for i, k := range keys {
		p.key(k, 8+i%inRow*keyWidth, height+i/inRow*keyHeight)
	}
	for i := range int(p.top/step+.5) + 1 {
		v := float64(i) * step
		y := p.y(v)
		fmt.Fprintf(p, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, width-right, y)
		fmt.Fprintf(
			p, `<text class="end" x="%d" y="%.1f">%s</text>`, left-4, y+3.5, html.EscapeString(a.Format(v)),
		)
	}
	p.times()
	return p
}

// niceStep returns the distance of lines across for an axis that is at least so long: 3 or 4 of them.
func niceStep(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, n := range []float64{1, 2, 2.5, 5, 10} {
		if step := n * power; highest/step <= 4 {
			return step
		}
	}
	return 10 * power
}

// times writes the axis of time. Its words are relative, and hold in every time zone.
func (p *picture) times() {
	span := p.axes.To.Sub(p.axes.From)
	if span <= 0 {
		return
	}
	step := timeStep(span)
	for i := range int(span/step) + 1 {
		d := time.Duration(i) * step
		at, word := float64(d)/float64(span), ageWords(d)
		if !p.axes.Since {
			at = 1 - at
			if word += " ago"; d == 0 {
				word = "now"
			}
		}
		anchor := "mid"
		switch {
		case at < .07:
			anchor = "start"
		case at > .93:
			anchor = "end"
		}
		fmt.Fprintf(p, `<text class="%s" x="%.1f" y="%d">%s</text>`, anchor, left+at*innerWidth, height-6, word)
	}
}

// timeStep returns the distance of the words on an axis of such a length: 2 to 4 of them.
func timeStep(span time.Duration) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour,
		12 * time.Hour, day, 2 * day, 7 * day,
	} {
		if span < 4*step {
			return step
		}
	}
	return span / 3
}

func ageWords(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

func (p *picture) x(t time.Time) float64 { return left + p.axes.share(t)*innerWidth }

func (p *picture) y(v float64) float64 { return top + innerHeight*(1-v/p.top) }

// line draws a line in as many pieces as there are: what was not measured is a gap.
func (p *picture) line(class string, dots []Dot, filled bool) {
	gap := max(3*p.axes.To.Sub(p.axes.From)/most, 25*time.Minute)
	var piece []Dot
	flush := func() {
		if len(piece) == 0 {
			return
		}
		var path strings.Builder
		for i, d := range piece {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], p.x(d.At), p.y(d.Y))
		}
		if len(piece) == 1 {
			path.WriteString("h1")
		}
		if filled {
			fmt.Fprintf(
				p, `<path class="area" d="%sV%.1fH%.1fz"/>`, path.String(), p.y(0), p.x(piece[0].At),
			)
		}
		fmt.Fprintf(p, `<path class="%s" d="%s"/>`, class, path.String())
		piece = piece[:0]
	}
	for _, d := range dots {
		if math.IsNaN(d.Y) || len(piece) > 0 && d.At.Sub(piece[len(piece)-1].At) > gap {
			flush()
		}
		if !math.IsNaN(d.Y) {
			piece = append(piece, d)
		}
	}
	flush()
}

func (p *picture) layer(class string, times []time.Time, floor, values []float64) {
	if len(times) == 0 {
		return
	}
	var there, back strings.Builder
	fmt.Fprintf(&there, "M%.1f %.1f", p.x(times[0]), p.y(floor[0]+values[0]))
	for i := range times {
		end := p.axes.To
		if i+1 < len(times) {
			end = times[i+1]
		}
		fmt.Fprintf(&there, "V%.1fH%.1f", p.y(floor[i]+values[i]), p.x(end))
	}
	for i := len(times) - 1; i >= 0; i-- {
		fmt.Fprintf(&back, "V%.1fH%.1f", p.y(floor[i]), p.x(times[i]))
	}
	fmt.Fprintf(p, `<path class="layer %s" d="%s%sz"/>`, class, there.String(), back.String())
}

// key writes a name below the axis.
func (p *picture) key(k key, x, y int) {
	name := k.name
	if r := []rune(name); len(r) > keyShown {
		name = string(r[:keyShown-1]) + "…"
	}
	fmt.Fprintf(p, `<rect class="layer %s" x="%d" y="%d" width="9" height="9"/>`, k.class, x, y)
	fmt.Fprintf(p, `<text x="%d" y="%d">%s</text>`, x+13, y+9, html.EscapeString(name))
}

// end draws the limit, and returns the picture.
func (p *picture) end() string {
	if l := p.axes.Limit; l > 0 {
		fmt.Fprintf(
			p, `<line class="limit" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, p.y(l), width-right, p.y(l),
		)
	}
	p.WriteString("</svg>")
	return p.String()
}

// Style is what a chart looks like that is no part of a page.
const Style = `.chart{background:#fff;font:11px system-ui,sans-serif}.chart text{fill:#566273}.chart .grid{stroke:#d7dde6}
.chart .mid{text-anchor:middle}.chart .end{text-anchor:end}.chart .limit{stroke:#b3261e;stroke-dasharray:4 3}
.chart .line{fill:none;stroke:currentColor;stroke-width:1.5}.chart .area{fill:#0a5cc0;opacity:.15}
.chart .layer{fill:currentColor}.c0{color:#0a5cc0}.c1{color:#c65d00}.c2{color:#1b7a37}.c3{color:#7a3fa0}.c4{color:#0b7285}
.c5{color:#8d99a8}.good{color:#1b7a37}.bad{color:#b3261e}.line.c1{stroke-dasharray:5 2}
@media (prefers-color-scheme:dark){.chart{background:#1b222c}.chart text{fill:#a3afbf}.chart .grid{stroke:#323c4a}
.chart .limit{stroke:#ff9b93}.c0{color:#7db5ff}.c1{color:#f1a05d}.c2{color:#76d893}.c3{color:#c9a0e8}.c4{color:#66c7d6}
.good{color:#76d893}.bad{color:#ff9b93}}`

// Alone returns a chart as a document of its own, with its title.
func Alone(svg string) string {
	return strings.Replace(
		strings.Replace(svg, "<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `, 1), ">", "><style>"+Style+"</style>", 1,
	)
}
