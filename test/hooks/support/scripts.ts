// Shell hooks in a directory of their own: real programs, a real home.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as ShellHooks from "../../../src/hooks/ShellHooks.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

export const platform = NodeServices.layer

/** A place with programs, and what they left there. */
export const place = Effect.map(temporaryDirectory, (directory) => {
  const home = join(directory, "home")
  mkdirSync(home)
  return {
    directory,
    home,
    /** Writes a program for `sh` and returns the path to it. */
    script: (name: string, body: string): string => {
      const path = join(directory, name)
      writeFileSync(path, `#!/bin/sh\n${body}\n`)
      chmodSync(path, 0o755)
      return path
    },
    file: (name: string): string => readFileSync(join(directory, name), "utf8"),
    has: (name: string): boolean => existsSync(join(directory, name)),
    settings: (block: unknown, more: Partial<ShellHooks.Settings> = {}): ShellHooks.Settings => ({
      block,
      home,
      cwd: directory,
      environment: { PATH: process.env["PATH"], HOME: directory },
      accept: true,
      ...more
    })
  }
})

/** Hooks with these shell hooks registered. */
export const registered = (settings: ShellHooks.Settings, hooks?: Hooks.Service) =>
  Effect.gen(function* () {
    const service = hooks ?? (yield* Hooks.make())
    const shell = yield* ShellHooks.make(settings)
    for (const hook of yield* shell.hooks) yield* service.register(hook)
    return service
  })
