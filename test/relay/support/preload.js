// Loaded before a program: `nemo-relay-node` is the one of this folder, or none where a test says so.
import { registerHooks } from "node:module"

const library = new URL("../node_modules/nemo-relay-node/index.js", import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) => {
    if (specifier !== "nemo-relay-node") return next(specifier, context)
    return next(process.env["TEST_WITHOUT_RELAY"] === "1" ? "nemo-relay-node-that-is-not-there" : library, context)
  }
})
