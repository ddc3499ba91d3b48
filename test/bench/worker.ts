// A process of `npm run bench` with one runner: arguments are its name, the address of the model server and the folder
// of the tree whose runner is meant. It measures the workloads that its parent names.
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as Plain from "./plain.ts"
import * as Thin from "./thin.ts"
import { type Runner, workloads } from "./workloads.ts"

const system = "You are a benchmark agent. Call the echo tool as asked."
const prompt = "Go."
const [name = "", url = "", tree = ""] = process.argv.slice(2)

/** A runner that is set up by its address; the peers' are modules whose default export is one. */
interface Module {
  readonly setup: (url: string, options: object) => Promise<void>
  readonly close?: (() => Promise<void>) | undefined
}

const runnerOf = async (): Promise<Runner & Partial<Module>> => {
  if (name === "plain" || name === "A/A") return Plain.make(url, system, prompt)
  if (name === "thin Effect loop") return Thin.make(url, system, prompt)
  const module = await import(
    pathToFileURL(name.endsWith("js") || name.endsWith(".ts") ? name : join(tree, "test/bench/runner.ts")).href
  )
  // Earlier commits have a list of runners.
  const runner =
    "make" in module
      ? module.make(name)
      : (module.variants?.find((one: { readonly name: string }) => one.name === name) ?? module.default)
  await runner.setup(url, { tool: (text: string) => text, middlewares: 0, system, prompt })
  return runner
}

const runner = await runnerOf()

/** Answers the parent, which may be gone. */
const say = (answer: object): void => {
  if (process.connected) process.send?.(answer)
}
const leave = (): void => void (runner.close?.() ?? Promise.resolve()).finally(() => process.exit(0))

process.on("message", ({ millis, workload }: { readonly workload: string; readonly millis: number }) => {
  const found = workloads.find((one) => one.name === workload)
  Promise.resolve(found?.sample(runner, millis)).then(
    (value) => say({ value }),
    (error: unknown) => say({ error: error instanceof Error ? error.stack : String(error) })
  )
})
process.on("disconnect", leave)
process.on("SIGTERM", leave)
say({ ready: true })
