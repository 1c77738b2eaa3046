package paramgrid

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"
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
		return a, refuse(a.start()+": the count is "+written, "write it as "+kind+"(first,last,count), count at least 1")
	case kind == "log" && (first == 0 || last == 0 || (first < 0) != (last < 0)):
		return a, refuse(a.start()+": a logarithmic range does not reach over 0", "begin and end on the same side of 0")
	case math.IsInf(last-first, 0):
		return a, refuse(a.start()+": these are not the numbers of a range", spreadRemedy)
	}
	at := func(i float64) float64 { return first + float64((last-first)*i)/(n-1) }
	a.count = n
	a.values = func() []string {
		if kind == "log" {
			at = logarithmic(first, last, n)
		}
		values := make([]string, 0, int(n))
		for i := 0.0; i < n; i++ {
			value := at(i)
			switch i {
			case 0:
				value = first
			case n - 1:
				value = last
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
		return a, refuse(a.start()+": there is no value in this range", "write it as range(first,end,step); end is not in it")
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

// rounded writes a number as Python does, without the digits in which reckoning shows.
func rounded(value float64) string {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 12, 64), 64)
	return writeFloat(short)
}

// writeFloat writes a number as Python's repr does.
func writeFloat(v float64) string {
	if v == 0 || math.Abs(v) >= 1e-4 && math.Abs(v) < 1e16 {
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	return strconv.FormatFloat(v, 'e', -1, 64)
}

// precision is that in bits to which logarithmic ranges are reckoned. Python does it in 60 digits: rounded to a float
// both are the same number, which no pow of a C library or of Go's promises.
const precision = 256

// logarithmic returns the function whose value at i is first*(last/first)**(i/(n-1)).
func logarithmic(first, last, n float64) func(i float64) float64 {
	ln := logarithm(newBig().Quo(exact(last), exact(first)))
	return func(i float64) float64 {
		if n == 1 {
			return first
		}
		power := newBig().Quo(newBig().Mul(ln, exact(i)), exact(n-1))
		value, _ := newBig().Mul(exact(first), exponential(power)).Float64()
		return value
	}
}

func newBig() *big.Float                    { return new(big.Float).SetPrec(precision) }
func exact(v float64) *big.Float            { return newBig().SetFloat64(v) }
func scaled(x *big.Float, e int) *big.Float { return newBig().SetMantExp(x, e) }

// logarithm returns ln x for x > 0: of its mantissa by the series of the inverse hyperbolic tangent, and of its power
// of two.
func logarithm(x *big.Float) *big.Float {
	mantissa := newBig()
	e := x.MantExp(mantissa)
	z := newBig().Quo(newBig().Sub(mantissa, exact(1)), newBig().Add(mantissa, exact(1)))
	return newBig().Add(scaled(artanh(z), 1), newBig().Mul(exact(float64(e)), ln2()))
}

var ln2 = sync.OnceValue(func() *big.Float { return scaled(artanh(newBig().Quo(exact(1), exact(3))), 1) })

// artanh sums its series for |z| <= 1/3.
func artanh(z *big.Float) *big.Float {
	sum, power, square := newBig(), newBig().Set(z), newBig().Mul(z, z)
	for k := 1.0; k < precision; k += 2 {
		sum.Add(sum, newBig().Quo(power, exact(k)))
		power.Mul(power, square)
	}
	return sum
}

// exponential returns e to the x: of what is left of x without powers of two, made smaller so that few terms do.
func exponential(x *big.Float) *big.Float {
	const halvings, terms = 12, 20
	two := ln2()
	ratio, _ := newBig().Quo(x, two).Float64()
	e := int(math.Round(ratio))
	rest := scaled(newBig().Sub(x, newBig().Mul(exact(float64(e)), two)), -halvings)
	sum := exact(1)
	for k := float64(terms); k >= 1; k-- {
		sum = newBig().Add(exact(1), newBig().Quo(newBig().Mul(rest, sum), exact(k)))
	}
	for range halvings {
		sum = newBig().Mul(sum, sum)
	}
	return scaled(sum, e)
}
