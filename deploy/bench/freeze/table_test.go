package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var tab table
	for _, v := range []float64{3, 1, 200.4, 12.34} {
		tab.add("a", v)
	}
	tab.add("b", 0)
	tab.spent("c", used{wall: 2, cpu: 0.0012})
	tab.want("a", target{most: 8})
	tab.want("c: s", target{least: 2.5})
	tab.want("c: CPU s", target{most: 0.001, worst: true})
	var out strings.Builder
	if err := tab.write(&out); err != nil {
		t.Fatal(err)
	}
	want := "| figure | min | median | max | runs | target |\n|---|---|---|---|---|---|\n" +
		"| a | 1.00 | **7.67** | 200 | 4 | at most 8: met |\n| b | 0 | **0** | 0 | 1 |  |\n" +
		"| c: s | 2.00 | **2.00** | 2.00 | 1 | at least 2.5: **missed** |\n" +
		"| c: CPU s | 0.0012 | **0.0012** | 0.0012 | 1 | always at most 0.001: **missed** |\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestField(t *testing.T) {
	if now, peak, err := resident(); err != nil || now <= 0 || peak < now/2 {
		t.Errorf("%d, %d, %v", now, peak, err)
	}
	if _, err := field("/proc/self/status", "Nothing:"); err == nil {
		t.Error("a field that is not there was read")
	}
}
