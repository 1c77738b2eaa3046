package paramgrid

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// number is a number as it was written: whole ones stay so.
type number struct {
	float float64
	int   int64
	whole bool
}

var decimal = regexp.MustCompile(`\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z`)

// parseNumber reads a finite number.
func parseNumber(text string) (number, bool) {
	if !decimal.MatchString(text) {
		return number{}, false
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{float: float64(i), int: i, whole: true}, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return number{float: f}, err == nil
}

const spreadRemedy = "write it as log(first,last,count), linear(first,last,count) or range(first,end,step), or list the values"

// spread reads log(first,last,count), linear(first,last,count) and range(first,end,step).
func (a axis) spread(kind string, given []string) (axis, error) {
	least, most := 3, 3
	switch kind {
	case "range":
		least = 1
	case "log", "linear":
	default:
		return a, refuse(a.start()+": a range is not understood", spreadRemedy)
	}
	var numbers []number
	for _, text := range given {
		if n, ok := parseNumber(strings.Trim(text, " ")); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) < len(given) || len(given) < least || len(given) > most {
		return a, refuse(a.start()+": these are not the numbers of a range", spreadRemedy)
	}
	if kind == "range" {
		return a.stepped(numbers)
	}
	return a.between(kind, numbers[0].float, numbers[1].float, numbers[2].float, strings.Trim(given[2], " "))
}

// between spreads n values from first to last, both of which are in it.
func (a axis) between(kind string, first, last, n float64, written string) (axis, error) {
	switch {
	case n < 1 || n != math.Trunc(n):
		return a, refuse(
			a.start()+": the count is "+written, "write it as "+kind+"(first,last,count), count at least 1",
		)
	case kind == "log" && (first == 0 || last == 0 || (first < 0) != (last < 0)):
		return a, refuse(a.start()+": a logarithmic range does not reach over 0", "begin and end on the same side of 0")
	case math.IsInf(last-first, 0):
		return a, refuse(a.start()+": these are not the numbers of a range", spreadRemedy)
	}
	a.count = n
	a.values = func() []string {
		values := make([]string, 0, int(n))
		for i := range int(n) {
			value := last
			switch part := float64(i) / (n - 1); {
			case i == 0:
				value = first
			case float64(i) == n-1:
			case kind == "log": // both have the same sign
				value = math.Copysign(math.Pow(math.Abs(first), 1-part)*math.Pow(math.Abs(last), part), first)
			default:
				value = first + float64((last-first)*float64(i))/(n-1)
			}
			values = append(values, rounded(value))
		}
		return values
	}
	return a, nil
}

// stepped is Python's range, of numbers that need not be whole.
func (a axis) stepped(given []number) (axis, error) {
	first, end, step := number{whole: true}, given[0], number{float: 1, int: 1, whole: true}
	if len(given) > 1 {
		first, end = given[0], given[1]
	}
	if len(given) > 2 {
		step = given[2]
	}
	if step.float == 0 {
		return a, refuse(a.start()+": steps of 0 lead nowhere", "write it as range(first,end,step)")
	}
	whole := first.whole && end.whole && step.whole
	if whole {
		a.count = wholeSteps(first.int, end.int, step.int)
	} else { // a hair less, so that range(0,1,0.1) has 10 values and not 11
		a.count = max(0, math.Ceil((end.float-first.float)/step.float-1e-9))
	}
	switch {
	case math.IsInf(a.count, 0):
		return a, refuse(a.start()+": these are not the numbers of a range", spreadRemedy)
	case a.count == 0:
		return a, refuse(
			a.start()+": there is no value in this range", "write it as range(first,end,step); end is not in it",
		)
	}
	a.values = func() []string {
		values := make([]string, 0, int(a.count))
		for i := range int64(a.count) {
			if whole {
				values = append(values, strconv.FormatInt(first.int+i*step.int, 10))
			} else {
				values = append(values, rounded(first.float+float64(float64(i)*step.float)))
			}
		}
		return values
	}
	return a, nil
}

// wholeSteps counts the steps from first up to end, or down to it.
func wholeSteps(first, end, step int64) float64 {
	way, each := uint64(end)-uint64(first), uint64(step)
	if step < 0 {
		first, end, way, each = end, first, -way, -each
	}
	if end <= first {
		return 0
	}
	return float64((way-1)/each + 1)
}

// rounded writes a number without the digits in which reckoning shows. A float stays one where a job reads it.
func rounded(value float64) string {
	text := strconv.FormatFloat(value, 'g', 12, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
