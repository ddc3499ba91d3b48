import * as Effect from "effect/Effect"
import { FileTools, Runtime } from "../../src/index.ts"
import { ToolServer } from "../../src/kit/entry/server.ts"

// A program that a client starts; it ends with its input.
export const program = ToolServer.serveStdio({ name: "files" }).pipe(
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset] }))
)

console.log(Effect.isEffect(program))
// => true
