import { assert, it } from "@effect/vitest"
import { summary } from "../../src/cli/ToolsCommand.ts"

it("a tool is told in its first sentence, and what a list follows ends like one", () => {
  assert.strictEqual(summary("Reads a file. Then more."), "Reads a file.")
  assert.strictEqual(summary("Asks the user when:\n- it must\n- it may"), "Asks the user when.")
  assert.strictEqual(summary("One:two three"), "One:two three")
})
