// Package paramgrid reads the points of a scan as people write them: `--scan name=values`, once for each name, and
// files of points.
//
// A value is a number, true, false or null (also as Python writes them), or JSON's list, object or string; all else is
// text. It promises points that a job reads as those that the Python client makes of the same words: both sides' tests
// read the tables hubapi/testdata/scans.json and grid-files.json. Points are counted before any is made. It must not
// know commands or the service.
package paramgrid

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// aRange is what looks like a function of numbers, such as log(1e-4,1e-1,7).
var aRange = regexp.MustCompile(`\A([A-Za-z_]+)\((.*)\)\z`)

// axis is the values of one name, counted and not made yet.
type axis struct {
	text, name string
	count      float64 // may be far more than anything could hold
	values     func() []string
}

// Parse returns a point for each combination of the values, those of the last name changing fastest.
func Parse(given []string) ([]hubapi.Point, error) {
	if len(given) == 0 {
		return nil, nil
	}
	axes, n := make([]axis, 0, len(given)), 1.0
	for _, text := range given {
		a, err := parseAxis(text)
		if err != nil {
			return nil, err
		}
		axes, n = append(axes, a), n*a.count
	}
	if n > hubapi.PointLimit {
		return nil, refuse(
			countWords(n)+" points are too many", fmt.Sprintf("at most %s points", countWords(hubapi.PointLimit)),
		)
	}
	points, seen := []hubapi.Point{{}}, map[string]bool{}
	for _, a := range axes {
		if seen[a.name] {
			return nil, refuse(a.start()+": "+a.name+" is there twice", "give all its values in one list")
		}
		seen[a.name] = true
		values := a.values()
		if err := distinct(a, values); err != nil {
			return nil, err
		}
		points = cross(points, a.name, values)
	}
	return points, nil
}

// cross returns each point with each value.
func cross(points []hubapi.Point, name string, values []string) []hubapi.Point {
	out := make([]hubapi.Point, 0, len(points)*len(values))
	for _, p := range points {
		for _, value := range values {
			parameters := map[string]string{name: value}
			maps.Copy(parameters, p.Parameters)
			out = append(out, hubapi.Point{Parameters: parameters})
		}
	}
	return out
}

// start is enough of what was written to find it again.
func (a axis) start() string { return fmt.Sprintf("%.80s", a.text) }

func parseAxis(text string) (axis, error) {
	name, rest, _ := strings.Cut(text, "=")
	a := axis{text: text, name: strings.Trim(name, " ")}
	rest = strings.Trim(rest, " ")
	if a.name == "" || rest == "" {
		if text == "" {
			a.text = "''"
		}
		return a, refuse(a.start()+": not understood", "write it as name=value,value")
	}
	if wrong, remedy := wrongName(a.name); wrong != "" {
		return a, refuse(a.start()+": "+wrong, remedy)
	}
	if call := aRange.FindStringSubmatch(rest); call != nil {
		return a.spread(call[1], strings.Split(call[2], ","))
	}
	values, err := a.split(rest)
	a.count, a.values = float64(len(values)), func() []string { return values }
	return a, err
}

// split splits at the commas. A value in quotes is text, as it stands between them: commas, spaces and digits too.
func (a axis) split(rest string) (values []string, err error) {
	for more := true; more; {
		var value string
		if text := strings.TrimLeft(rest, " "); strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`) {
			quoted, behind, ok := strings.Cut(text[1:], text[:1])
			behind = strings.TrimLeft(behind, " ")
			if !ok || strings.Contains(quoted, "\n") || behind != "" && behind[0] != ',' {
				return nil, refuse(
					a.start()+": a quote is not closed, or not at a value's end", "write it as name='a,b','c'",
				)
			}
			value, more, rest = PlainText(quoted), behind != "", strings.TrimPrefix(behind, ",")
		} else {
			value, rest, more = strings.Cut(rest, ",")
			value = strings.Trim(value, " ")
		}
		values = append(values, value)
	}
	return values, nil
}

func distinct(a axis, values []string) error {
	seen := make(map[string]bool, len(values))
	for _, value := range values {
		if value == "" {
			return refuse(a.start()+": a value is missing between two commas", "write it as name=value,value")
		}
		if wrong, remedy := wrongValue(value); wrong != "" {
			return refuse(fmt.Sprintf("%.40q: %s", a.text, wrong), remedy)
		}
		if seen[value] {
			return refuse(a.start()+": "+value+" is there twice", "give every value once")
		}
		seen[value] = true
	}
	return nil
}

// keywords are Python's own, which no variable can be called.
var keywords = regexp.MustCompile(`\A(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|` +
	`global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\z`)

// wrongName says what is wrong with a parameter's name, and what to do; empty: nothing.
func wrongName(name string) (wrong, remedy string) {
	if keywords.MatchString(name) {
		return name + " is a word of Python's own", "choose another name"
	}
	return wrongWith(name, "1")
}

// wrongValue is wrongName for a value.
func wrongValue(value string) (wrong, remedy string) {
	switch wrong, remedy = wrongWith("k", value); {
	case !utf8.ValidString(value):
		return "a value that is not UTF-8 text", "write it in UTF-8"
	case wrong == "":
		return "", ""
	case len(value) > len(remedy) && strings.HasPrefix(remedy, "at most"):
		return "a value is too long", remedy
	default:
		return "a value with control characters", "write it without them"
	}
}

// wrongWith asks the one place that knows what the service takes.
func wrongWith(name, value string) (wrong, remedy string) {
	err := hubapi.CheckParameter("", name, value)
	switch e, _ := err.(*errs.Error); {
	case err == nil:
		return "", ""
	case e == nil:
		return err.Error(), ""
	case strings.Contains(e.Remedy, "has a meaning of its own"):
		return name + " has a meaning of its own", "choose another name"
	default:
		return fmt.Sprintf("%.80s is not a name", name), e.Remedy
	}
}

// countWords writes how many points there would be; of what nobody could count, about how many.
func countWords(n float64) string {
	if n > 1e15 {
		return "about " + strconv.FormatFloat(n, 'e', 0, 64)
	}
	digits := strconv.FormatInt(int64(math.Round(n)), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func refuse(what, remedy string) error {
	e := errs.New(errs.Invalid, "--scan %s", what).With(remedy)
	e.Field = "scan"
	return e
}
