// Package e2e tests the real binary with a temporary data folder on a loopback
// port, as clients, operators and attackers use it. It contains only tests, which
// build the binary once. Processes are started and ended one by one; every wait
// has a limit.
package e2e
