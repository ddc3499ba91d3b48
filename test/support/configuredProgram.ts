// The runtime of the program over a config.yaml of its own, in this process: settings, routes, keys and home directory
// are the real ones, and so is what goes over the wire.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { Home } from "../../src/base/config/Environment.ts"
import { withoutSandbox } from "./hermes.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

export interface Options {
  readonly config: string
  readonly env?: Readonly<Record<string, string>>
  /** Of an earlier program, to go on with what it remembers. */
  readonly home?: string
}

/** A home directory that is gone after the test. */
export const home: typeof temporaryDirectory = temporaryDirectory

/** Writes a file, and the folders that it is in. */
export const keep = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** The program's layer for these settings. */
export const layer = ({ config, env = {}, home: given }: Options) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const root = given ?? (yield* temporaryDirectory)
      mkdirSync(root, { recursive: true })
      writeFileSync(join(root, "config.yaml"), config)
      const surroundings = Layer.mergeAll(
        Home.layerAt(root),
        Environment.Environment.layerIn({ HOME: root, ...withoutSandbox, ...env })
      ).pipe(Layer.provide(NodeServices.layer))
      const { settings } = yield* Config.load().pipe(Effect.provide([surroundings, NodeServices.layer]))
      return Runtime.program(settings).pipe(Layer.provide(surroundings))
    })
  )
