// Package archtest keeps the house in order: which package may import which, and what no file may hold. It has tests
// only.
//
// The tests parse the tree in this process. `go list` in a child would do less: go test caches a result until a file
// that the test itself opened changes, and so would miss a breach.
package archtest
