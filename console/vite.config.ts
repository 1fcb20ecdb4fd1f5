/** Builds the console into one file, gateway/console.html. `npm run dev` serves it with calls passed on to a gateway. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { leanDescriptors } from "./descriptors.js";
import { viteSingleFile } from "vite-plugin-singlefile";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
/** The gateway that the development server passes calls on to. */
const gateway = process.env.TASKYARD_GATEWAY ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./",
  publicDir: false,
  plugins: [leanDescriptors(), viteSingleFile({ removeViteModuleLoader: true })],
  resolve: {
    alias: {
      "@client": here("../clients/typescript/src"),
      "@v1": here("../clients/typescript/src/gen/taskyard/v1"),
    },
    // The client's sources are bundled from its own folder, whose packages need not be installed.
    dedupe: ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web"],
  },
  build: {
    outDir: here("../gateway"),
    emptyOutDir: false,
    target: "es2022",
    cssTarget: ["chrome123", "firefox128", "safari17.5"],
    modulePreload: false,
    rollupOptions: { input: here("console.html") },
  },
  server: {
    host: "127.0.0.1",
    fs: { allow: [here("..")] },
    proxy: {
      "^/(taskyard\\.v1\\.|tasks/)": {
        target: gateway,
        changeOrigin: true,
        // To the gateway, this server is a program and no page.
        configure: (proxy) =>
          proxy.on("proxyReq", (request) => {
            for (const name of ["origin", "referer", "sec-fetch-site", "sec-fetch-mode"]) request.removeHeader(name);
          }),
      },
    },
  },
});
