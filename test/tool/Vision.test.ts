import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { SideModel } from "../../src/tool/builtin/vision/SideModel.ts"
import * as Vision from "../../src/tool/builtin/Vision.ts"
import { callTool } from "../support/callTool.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const look = (params: unknown, cwd = "/") =>
  callTool(Vision.toolset, "vision_analyze", params, { cwd }).pipe(Effect.provide(NodeServices.layer))

describe("vision_analyze", () => {
  it.effect("shows a file or a data URL to the side model, as what its bytes are", () =>
    Effect.gen(function*() {
      const dir = yield* temporaryDirectory
      writeFileSync(join(dir, "picture.txt"), Buffer.from(png, "base64"))
      const asked: Array<Prompt.Message> = []
      const seeing = Effect.provideService(SideModel, (_task, messages) =>
        Effect.sync(() => {
          asked.push(...messages)
          return "a dot"
        }))
      for (const image_url of ["picture.txt", `data:image/jpeg;base64,${png}`]) {
        const { body } = yield* look({ image_url, question: "What is it?" }, dir).pipe(seeing)
        assert.deepStrictEqual(body, { success: true, analysis: "a dot" })
      }
      const types = asked.flatMap((message) =>
        message.role === "user" ? message.content.flatMap((part) => part.type === "file" ? [part.mediaType] : []) : []
      )
      assert.deepStrictEqual(types, ["image/png", "image/png"])
    }))

  it.effect("says what is wrong", () =>
    Effect.gen(function*() {
      const seeing = Effect.provideService(SideModel, () => Effect.succeed("never"))
      for (const image_url of ["nothing.png", "/", "/etc/passwd", "data:image/png;base64,%%%", "http://127.0.0.1/x.png", "ftp://x/y"]) {
        assert.isTrue((yield* look({ image_url }).pipe(seeing)).isFailure, image_url)
      }
      assert.isEmpty(yield* Effect.scoped(Vision.toolset.bind.pipe(Effect.provide(NodeServices.layer))), "without a side model")
    }))
})
