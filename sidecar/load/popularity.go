package load

import "math/rand/v2"

// Distribution says how often the keys of a workload are asked for.
type Distribution string

// The distributions.
const (
	// Even: all alike.
	Even Distribution = "uniform"
	// Zipfian: key of rank i with a probability proportional to 1/i^exponent, the ranks scattered over the keys.
	Zipfian Distribution = "zipfian"
	// Scrambled is YCSB's scrambled zipfian: the ranks of ten thousand million items fall on the keys by a hash. That
	// flattens it: with exponent 0.99 the most popular key gets about 4 %, however few keys there are.
	Scrambled Distribution = "scrambled"
	// Latest is YCSB's: zipfian, from the newest key to the oldest.
	Latest Distribution = "latest"
)

const (
	scrambledItems = 10_000_000_000
	// scrambledTries bounds the search for a key that is there already; then any key is taken.
	scrambledTries = 1000
)

// popular draws keys as a workload wants them.
func (k *keyspace) popular(d Distribution, r *rand.Rand) int {
	if key, ok := k.hot.draw(r); ok {
		return key
	}
	there := k.there()
	switch d {
	case Zipfian: // of the keys from the start
		return scatter(int(k.zipf.rank(r)), k.shared)
	case Scrambled:
		// Over all keys that may come, so that the popular ones do not change when keys come.
		for range scrambledTries {
			if key := int(fnv64(k.zipf.rank(r)) % uint64(k.limit)); key < there {
				return key
			}
		}
	case Latest:
		now := k.zipf.sized(min(there, k.limit))
		return (there - 1 - int(now.rank(r))) % k.limit
	}
	return r.IntN(min(there, k.limit))
}
