package bench

const raced = false
