/**
 * The global `process` for places without processes: Cloudflare Workers and browsers. It has the variables of
 * the place, if there are any. Signals and standard streams do not exist; ids are 0.
 */

/** Variables that the place defines as `process.env`, as Cloudflare Workers do with `nodejs_compat`. */
const findVariables = (): Record<string, string | undefined> => {
  const given: unknown = Reflect.get(globalThis, "process")
  const env: unknown = typeof given === "object" && given !== null ? Reflect.get(given, "env") : undefined
  // By convention an object of this name has texts.
  return typeof env === "object" && env !== null ? (env as Record<string, string | undefined>) : {}
}

const doNothing = (): void => {}

const refuseProcess = (): never => {
  throw new Error("processes need Node, Bun or Deno")
}

const place = {
  env: findVariables(),
  argv: [],
  execPath: "",
  pid: 0,
  platform: "web",
  versions: { node: "" },
  stdin: {},
  stdout: { isTTY: false },
  stderr: { isTTY: false },
  cwd: () => "/",
  constrainedMemory: () => 0,
  on: doNothing,
  once: doNothing,
  off: doNothing,
  emitWarning: doNothing,
  nextTick: (callback: () => void) => queueMicrotask(callback),
  kill: refuseProcess,
  exit: refuseProcess
}

export { place as default }
