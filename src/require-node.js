// @ts-check
/**
 * Stops with one clear line when this Node is too old to run the TypeScript sources or their dependencies.
 * Plain JavaScript without imports, so that every Node can run it.
 */
const required = /** @type {const} */ ([22, 19])

/** @param {string} version */
export const isSupported = (version) => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major > required[0] || (major === required[0] && minor >= required[1])
}

if (!isSupported(process.versions.node)) {
  process.stderr.write(
    `hermes needs Node ${required.join(".")} or newer, this is ${process.versions.node}. ` +
      "In a checkout run `npm ci` and start it by `npm run -s hermes --` (it brings its own Node), or install a newer Node.\n"
  )
  process.exit(2)
}
