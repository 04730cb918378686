// Package demo is a guided tour of a deployment on one machine.
//
// # Contract
//
// Everything the tour says about the deployment is computed from what it has just observed, through an unmodified Redis
// client on the real ports and through the state that the deployment shows. What is not as it should be is said so, and
// counted; the tour goes on, and heals what it has broken.
//
// The tour expects the deployment for itself: other clients would be in its measurements.
package demo
