// Package bench drives a real JupyterHub as many users at once do, through its REST API, and tells what they got: how
// many servers started, how long each step took, what failed and why.
//
// It promises bounds (users, time, requests under way), to touch no user whom it has not made itself, and to take away
// what it has made, also when it is interrupted. It measures and does not judge. It must not know Slipway: any Hub with
// any Spawner will do, so that two can be compared.
package bench
