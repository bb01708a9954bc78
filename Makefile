# A thin front over CMake: `make help` lists the targets. The build is in build/ (Release), build-asan/, build-fuzz/.
#   make [PREFIX=/usr/local] [DESTDIR=] [JOBS=n] [CMAKE_FLAGS="-DLOCKSTEP_WITH_DNNL=OFF"] [SETUP=0: install no packages]
PREFIX ?= /usr/local
DESTDIR ?=
CMAKE_FLAGS ?=
SETUP ?= 1
export JOBS
setup = @if [ "$(SETUP)" != 0 ]; then scripts/setup $(1); fi

all: ## build the program, its man page and the library (the default)
	@TARGET="lockstep docs lockstep_shared" scripts/build build $(CMAKE_FLAGS)

setup: ## install the packages needed to build
	@scripts/setup build

demo: ## install what is missing, build, train LeNet-5 on the built-in digits
	$(call setup,build)
	@TARGET=lockstep scripts/build build $(CMAKE_FLAGS)
	@scripts/demo

test: ## install what is missing, build, run every test, again under ASan and UBSan, then the fuzzers
	$(call setup,test)
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" tests/run-tests

check: test ## the same as test

asan: ## build program and tests with AddressSanitizer and UndefinedBehaviorSanitizer in build-asan/
	@scripts/build build-asan -DLOCKSTEP_SANITIZE=ON $(CMAKE_FLAGS)

fuzz: ## run every fuzz target for LOCKSTEP_FUZZ_SECONDS (5)
	@tests/fuzz/run-fuzz

test-gpu: ## what needs an NVIDIA card: every op, trainings, speeds; without a card it says so
	@scripts/build build
	@bash tests/gpu/run build/lockstep || [ $$? -eq 77 ]

soak: ## the long tests of many workers: SOAK="MINUTES TRIALS SECONDS-BETWEEN-KILLS" (30 20 60), about two and a half hours with these
	$(call setup,test)
	@scripts/build build $(CMAKE_FLAGS)
	@bash tests/dist/soak.sh build/lockstep "$$PWD/build/dist" $(SOAK)

api: ## the API reference out of the headers' comments: build/api/html/index.html (Doxygen)
	@command -v doxygen >/dev/null || { echo "make api: doxygen is not installed (apt-get install doxygen)" >&2; exit 1; }
	@mkdir -p build/api && doxygen docs/Doxyfile && echo "build/api/html/index.html"

install: all ## install program, libraries, headers, man page and completion under DESTDIR/PREFIX
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

uninstall: ## remove what install put there (the same PREFIX and DESTDIR)
	@DESTDIR="$(DESTDIR)" scripts/uninstall "$(PREFIX)"

format: ## format the C files
	@scripts/check-format --fix

lint: ## layers, bans, docs, format; clang-tidy, cppcheck and shellcheck where they are installed
	@scripts/lint || [ $$? -eq 77 ]

clean: ## remove what was built (runs/ stays)
	@rm -rf build build-asan build-tsan build-fuzz

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || \
	    sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' Makefile

.NOTPARALLEL:
.PHONY: all api setup demo test check asan fuzz soak test-gpu install uninstall format lint clean help
