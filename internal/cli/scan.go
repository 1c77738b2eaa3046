package cli

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// aRange is what looks like a function of numbers, such as log(1e-4,1e-1,7): as a list it would be taken apart at its commas.
var aRange = regexp.MustCompile(`^[A-Za-z_]+\(.*\)$`)

// parseScan reads what `--scan name=value,value` says: a point for each combination of the values, those of the last name changing
// fastest.
func parseScan(given []string) ([]hubapi.Point, error) {
	if len(given) == 0 {
		return nil, nil
	}
	if n := product(given); n > hubapi.PointLimit {
		return nil, errs.Bad("--scan", fmt.Sprintf("%.80s", strings.Join(given, " --scan ")), fmt.Sprintf("at most %s; these are %s",
			count(hubapi.PointLimit, "point", "points"), count(n, "point", "points")))
	}
	points, seen := []hubapi.Point{{}}, map[string]bool{}
	for _, text := range given {
		name, values, err := parseAxis(text)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, errs.Bad("--scan", text, name+" is there twice: give all its values in one list")
		}
		seen[name] = true
		points = cross(points, name, values)
	}
	return points, nil
}

// product gives how many points there would be, as far as it counts.
func product(given []string) int64 {
	n := int64(1)
	for _, text := range given {
		n = min(n*int64(strings.Count(text, ",")+1), 1<<31)
	}
	return n
}

// cross gives each point with each value.
func cross(points []hubapi.Point, name string, values []string) []hubapi.Point {
	var out []hubapi.Point
	for _, p := range points {
		for _, value := range values {
			parameters := map[string]string{name: value}
			maps.Copy(parameters, p.Parameters)
			out = append(out, hubapi.Point{Parameters: parameters})
		}
	}
	return out
}

// parseAxis reads one name with its values.
func parseAxis(text string) (name string, values []string, err error) {
	name, list, _ := strings.Cut(text, "=")
	name, list = strings.TrimSpace(name), strings.TrimSpace(list)
	switch {
	case name == "" || list == "":
		return "", nil, errs.Bad("--scan", text, "write it as name=value,value")
	case aRange.MatchString(list):
		return "", nil, errs.Bad("--scan", text, "a range is not understood: write its values, as "+name+"=1,2,3")
	}
	seen := map[string]bool{}
	for value := range strings.SplitSeq(list, ",") {
		value = strings.TrimSpace(value)
		if err := hubapi.CheckParameter("--scan", name, value); err != nil {
			return "", nil, err
		}
		if value == "" {
			return "", nil, errs.Bad("--scan", text, "a value is missing between two commas")
		}
		if seen[value] {
			return "", nil, errs.Bad("--scan", text, value+" is there twice: every value once")
		}
		seen[value] = true
		values = append(values, value)
	}
	return name, values, nil
}
