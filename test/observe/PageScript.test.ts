// The scripts of the pages, as they are built.
import { assert, describe, it } from "@effect/vitest"
import * as Page from "../page.ts"

describe("the scripts of the pages", () => {
  for (const bundle of Page.bundles) {
    it(`${bundle.name} makes no markup and no code of texts`, async () => {
      assert.notMatch(
        await Page.generatePage(bundle),
        /innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|document\.write|\beval\(|new Function|srcdoc|import\(/u
      )
    })
  }

  it("the studio keeps the licences of the libraries in it", async () => {
    const [, studio] = Page.bundles
    const text = studio === undefined ? "" : await Page.generatePage(studio)
    for (const notice of ["Copyright (c) 2022 Leon Sorokin", "Christopher Jeffrey", "Permission is hereby granted"])
      assert.include(text, notice)
  })
})
