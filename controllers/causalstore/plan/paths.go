package plan

// DataDir is the folder of a part's data inside of its container.
const DataDir = dataDir
