// Package render writes what commands print: tables, pairs, JSON, live tables of jobs, and numbers and times in words.
//
// What others wrote reaches a terminal without control characters. The package knows no command, asks no service, and
// decides nothing: the same values always come out as the same text.
package render
