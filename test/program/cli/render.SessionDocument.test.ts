// A stored conversation as a page: its results have the same views as on the terminal.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as SessionDocument from "../../../src/program/cli/render/SessionDocument.ts"
import type { Session } from "../../../src/store/SessionStore.ts"

const session: Session = {
  id: SessionId.make("s"),
  source: "cli",
  provider: "p",
  model: "m",
  systemPrompt: "",
  parentId: undefined,
  continues: undefined,
  hasOwnPrompt: false,
  tenant: undefined,
  title: undefined,
  cwd: "/tmp/x",
  branch: "main",
  startedAt: 0,
  endedAt: undefined,
  endReason: undefined,
  usage: Usage.zero,
  cost: Cost.toSpent(Cost.nothing),
  messageCount: 0,
  toolCallCount: 0
}

const answer = (name: string, result: unknown, modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart>) =>
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id: "1",
        name,
        isFailure: false,
        providerExecuted: false,
        result,
        ...(modelOutput === undefined ? {} : { modelOutput })
      })
    ]
  })

const render = (...messages: ReadonlyArray<Prompt.Message>): string =>
  SessionDocument.renderHtml([{ session, messages }])

describe("SessionDocument", () => {
  it("a failed command has its last lines and its exit code, and is marked", () => {
    const page = render(answer("terminal", { output: "one\n<b>two</b>", exit_code: 3, error: null }))
    assert.include(page, '<details class="failed"><summary>Result: terminal (failed, exit 3)</summary>')
    assert.include(page, '<pre class="shown failed" dir="auto">one\n&lt;b&gt;two&lt;/b&gt;</pre>')
  })

  it("rows are a table, a difference has colours, a plan its marks", () => {
    const rows = render(
      answer("web_search", {
        data: {
          web: [
            { title: "A & B", url: "https://a" },
            { title: "C", url: "" }
          ]
        }
      })
    )
    assert.include(rows, '<td dir="auto">A &amp; B</td><td dir="auto">https://a</td>')
    const diff = render(answer("patch", { diff: "@@ -1 +1 @@\n-a\n+b\n" }))
    assert.include(diff, '<span class="removed">-a</span>\n<span class="added">+b</span>')
    const plan = render(answer("todo", { todos: [{ id: "1", content: "Read", status: "completed" }] }))
    assert.include(plan, "☑ Read")
  })

  it("a picture is shown from its own bytes, and never from another host", () => {
    const shown = Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]), fileName: "a.png" })
    const page = render(answer("screenshot", "ok", [shown]))
    assert.include(page, '<img src="data:image/png;base64,AQID" alt="[image/png a.png]">')
    const strange = [
      Prompt.filePart({ mediaType: "image/png", data: new URL("https://example.com/a.png") }),
      Prompt.filePart({ mediaType: "image/png", data: "https://example.com/a.png" }),
      Prompt.filePart({ mediaType: "image/svg+xml", data: "PHN2Zz4=" }),
      Prompt.filePart({ mediaType: "image/png", data: '"><script>alert(1)</script>' })
    ]
    const other = render(Prompt.userMessage({ content: strange }))
    assert.notInclude(other, "<img")
    assert.notInclude(other, "<script>")
  })

  it("no secret is in a view", () => {
    const secret = `ghp_${"a1B2".repeat(9)}`
    const page = render(
      answer("terminal", { output: `token ${secret}`, exit_code: 1, error: null }),
      answer("list", [{ name: secret }, { name: "x" }]),
      answer("patch", { diff: `@@ -1 +1 @@\n+${secret}\n` })
    )
    assert.notInclude(page, secret)
  })
})
