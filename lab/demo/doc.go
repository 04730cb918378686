// Package demo is a guided tour of a deployment on one machine.
//
// # Contract
//
// All statements about the deployment are computed from what the tour has just observed, through an unmodified Redis
// client on the real ports and through the state that the deployment reports. If something is not as it should be, the
// tour says so and counts it; it continues, and repairs what it has broken.
//
// The tour needs the deployment for itself: other clients would affect its measurements.
package demo
