// Program freeze measures what environments cost against mksquashfs and Apptainer, on a running container and on one
// file system, in turns and in one process that does what the service does. It prints a Markdown table. What it must
// not do: change the container but for one small file, or keep anything outside the directory that it was given.
package main
