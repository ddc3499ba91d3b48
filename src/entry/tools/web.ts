/** Tools that search the web and read pages, with the fence of their addresses. */
export * as Web from "../../tool/builtin/Web.ts"
export * as SearchProvider from "../../tool/builtin/SearchProvider.ts"
export * as Urls from "../../tool/fence/Urls.ts"
