// The generated script of the page: the same as its modules make now.
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import * as Page from "../page.ts"

describe("the page's script", () => {
  it("is the bundle of its modules (`npm run build:page` writes it)", async () => {
    assert.strictEqual(readFileSync(Page.path, "utf8"), await Page.pageScript())
  })
})
