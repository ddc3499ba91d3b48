// `node test/support/importProbe.ts MODULE…`: imports modules and prints what their top level started: timers, requests,
// random values and listeners of the process, each with the line of this package that asked for it.
import nodeCrypto from "node:crypto"
import NodeModule from "node:module"

const calls: Array<string> = []

const watch = (target: object, name: string): void => {
  const original: unknown = Reflect.get(target, name)
  if (typeof original !== "function") return
  Reflect.set(target, name, function (this: unknown, ...args: ReadonlyArray<unknown>): unknown {
    const lines = new Error(name).stack?.split("\n").slice(2) ?? []
    const own = lines.find((line) => /\/(?:src|node_modules)\/|data:text/u.test(line))
    // Node itself uses timers and random values while it loads modules.
    if (own !== undefined) calls.push(`${name} ${own.trim()}`)
    return new.target === undefined ? Reflect.apply(original, this, args) : Reflect.construct(original, args)
  })
}

for (const name of ["setTimeout", "setInterval", "setImmediate", "fetch", "WebSocket"]) watch(globalThis, name)
watch(Math, "random")
for (const name of ["getRandomValues", "randomUUID"]) watch(globalThis.crypto, name)
for (const name of ["randomBytes", "randomUUID", "randomInt", "getRandomValues"]) watch(nodeCrypto, name)
for (const name of ["on", "once", "addListener"]) watch(process, name)
NodeModule.syncBuiltinESMExports()

for (const path of process.argv.slice(2)) await import(path)
process.stdout.write(JSON.stringify(calls))
