// Package canary runs a few sessions that write and read through one data center of a store, slowly, while a drill
// injects faults, and serves what they saw over HTTP.
//
// A canary is cheap enough for a store in production: the rate and the number of keys are bounded, all keys have the
// random prefix of the run, and have a time to live in case nobody deletes them. Canaries of different data centers use
// the same keys, so that the checker of history sees causality between them.
//
// Values carry a code that only canaries of the same run can make. A value without a valid one was not written by a
// canary: it is reported as forged, and is not part of the history.
//
// Failure model: a canary that is killed loses what was not fetched, and its keys expire. If it starts again, it is
// another one, as the incarnation in its reports says; WriterOf tells which one wrote a value that is read later. A
// canary fails no operation silently: every operation is in the history, with unknown outcome if no reply came.
package canary
